module.exports = class CreatePlans1700000000001 {
  async up(queryRunner) {
    await queryRunner.query(
      `CREATE TABLE plans (
        id INT AUTO_INCREMENT PRIMARY KEY,
        name VARCHAR(40) NOT NULL UNIQUE,
        price_cents INT NOT NULL
      )`,
    );
  }

  async down(queryRunner) {
    await queryRunner.query("DROP TABLE plans");
  }
};
