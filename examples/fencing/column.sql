-- A table that rejects a holder that comes too late: its row stores the largest token so far. This
-- works on any server, including one that dlock does not use. In the command of dlock exec:
--
--   { echo "SET @token=$DLOCK_TOKEN;"; cat column.sql; } | mysql app
--
-- Crash: uncommitted changes are rolled back, and the next holder has a larger token.
-- Database lost (that of dlock): the command is stopped. If it continues anyway, because its
--   machine was frozen, the SELECT fails with error 1242 once the next holder has updated the row,
--   and the client exits without a COMMIT.
-- Rollback of a release: the run has a larger token, like every later run. If a backup of this
--   table is restored, its fence is older, and any holder passes it.
CREATE TABLE IF NOT EXISTS site (
  id INT PRIMARY KEY,
  state VARCHAR(16) NOT NULL,
  fence BIGINT UNSIGNED NOT NULL
);
INSERT IGNORE INTO site VALUES (1, 'new', 0);

START TRANSACTION;
-- Locks the row, so that no other transaction raises the fence before the COMMIT.
SELECT IF(MAX(fence)<=@token, 'current', (SELECT 'stale' UNION SELECT 'token')) AS fence
  FROM site WHERE id=1 FOR UPDATE;
UPDATE site SET state='up', fence=@token WHERE id=1;
COMMIT;
