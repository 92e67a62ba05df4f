// Inserts many plans, with the statement of the harness.
exports.up = (knex) => knex.raw(process.env.INSERT_PLANS);

exports.down = (knex) => knex("plans").delete();
