// The connection comes from DB_HOST, DB_PORT, DB_USER, DB_PASSWORD and DB_NAME.
const { DataSource } = require("typeorm");

const { DB_HOST, DB_PORT, DB_USER, DB_PASSWORD, DB_NAME } = process.env;

module.exports = new DataSource({
  type: "mysql",
  host: DB_HOST,
  port: Number(DB_PORT || 3306),
  username: DB_USER,
  password: DB_PASSWORD,
  database: DB_NAME,
  migrations: [`${__dirname}/migrations/*.js`],
});
