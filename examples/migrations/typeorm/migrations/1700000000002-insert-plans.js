module.exports = class InsertPlans1700000000002 {
  async up(queryRunner) {
    await queryRunner.query(
      "INSERT INTO plans (name, price_cents) VALUES ('free', 0), ('team', 900), ('company', 4900)",
    );
  }

  async down(queryRunner) {
    await queryRunner.query("DELETE FROM plans");
  }
};
