class CreatePlans < ActiveRecord::Migration[6.1]
  def change
    create_table :plans do |table|
      table.string :name, limit: 40, null: false, index: { unique: true }
      table.integer :price_cents, null: false
    end
  end
end
