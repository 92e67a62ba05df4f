class AddCurrency < ActiveRecord::Migration[6.1]
  def change
    add_column :plans, :currency, :string, limit: 3, null: false, default: "EUR"
  end
end
