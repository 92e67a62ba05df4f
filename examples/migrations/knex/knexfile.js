// The connection comes from DB_HOST, DB_PORT, DB_USER, DB_PASSWORD and DB_NAME.
const { DB_HOST, DB_PORT, DB_USER, DB_PASSWORD, DB_NAME } = process.env;

module.exports = {
  client: "mysql2",
  connection: {
    host: DB_HOST,
    port: Number(DB_PORT || 3306),
    user: DB_USER,
    password: DB_PASSWORD,
    database: DB_NAME,
  },
};
