exports.up = (knex) =>
  knex.schema.createTable("plans", (table) => {
    table.increments("id");
    table.string("name", 40).notNullable().unique();
    table.integer("price_cents").notNullable();
  });

exports.down = (knex) => knex.schema.dropTable("plans");
