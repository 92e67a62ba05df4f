module.exports = class AddCurrency1700000000003 {
  async up(queryRunner) {
    await queryRunner.query("ALTER TABLE plans ADD COLUMN currency VARCHAR(3) NOT NULL DEFAULT 'EUR'");
  }

  async down(queryRunner) {
    await queryRunner.query("ALTER TABLE plans DROP COLUMN currency");
  }
};
