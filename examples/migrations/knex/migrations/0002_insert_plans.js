exports.up = (knex) =>
  knex("plans").insert([
    { name: "free", price_cents: 0 },
    { name: "team", price_cents: 900 },
    { name: "company", price_cents: 4900 },
  ]);

exports.down = (knex) => knex("plans").delete();
