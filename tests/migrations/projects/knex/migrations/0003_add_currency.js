// Adds the column currency, with the slow statement of the harness.
exports.up = (knex) => knex.raw(process.env.ADD_CURRENCY);

exports.down = (knex) => knex.raw("ALTER TABLE plans DROP COLUMN digest, DROP COLUMN currency");
