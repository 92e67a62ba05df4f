-- A table that refuses a holder which comes too late: its row remembers the largest token it has seen. Works on any
-- server, also on another than dlock's. In the command of dlock exec:
--
--   { echo "SET @token=$DLOCK_TOKEN;"; cat column.sql; } | mysql app
--
-- Crash: what was not committed is rolled back, and the next holder has a larger token.
-- Database lost (dlock's): the command is stopped. Should it go on all the same (its machine was frozen), the SELECT
--   fails with error 1242 as soon as the next holder has been here, and the client ends without a COMMIT.
-- Rollback of a release: has a larger token like every later run. A restored backup of this table has an older
--   fence, which any holder passes.
CREATE TABLE IF NOT EXISTS site (
  id INT PRIMARY KEY,
  state VARCHAR(16) NOT NULL,
  fence BIGINT UNSIGNED NOT NULL
);
INSERT IGNORE INTO site VALUES (1, 'new', 0);

START TRANSACTION;
-- Locks the row, so that nobody raises the fence before the COMMIT.
SELECT IF(MAX(fence)<=@token, 'current', (SELECT 'stale' UNION SELECT 'token')) AS fence
  FROM site WHERE id=1 FOR UPDATE;
UPDATE site SET state='up', fence=@token WHERE id=1;
COMMIT;
