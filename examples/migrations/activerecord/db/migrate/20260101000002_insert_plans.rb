class InsertPlans < ActiveRecord::Migration[6.1]
  class Plan < ActiveRecord::Base
  end

  def up
    Plan.create!([
      { name: "free", price_cents: 0 },
      { name: "team", price_cents: 900 },
      { name: "company", price_cents: 4900 },
    ])
  end

  def down
    Plan.delete_all
  end
end
