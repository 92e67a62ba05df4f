exports.up = (knex) =>
  knex.schema.alterTable("plans", (table) => {
    table.string("currency", 3).notNullable().defaultTo("EUR");
  });

exports.down = (knex) =>
  knex.schema.alterTable("plans", (table) => {
    table.dropColumn("currency");
  });
