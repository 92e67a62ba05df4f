-- A table that rejects holders with an old token. The row stores the largest token of all updates
-- so far. This works on any server, also on a server that dlock does not use. The command of
-- dlock exec runs this file:
--
--   { echo "SET @token=$DLOCK_TOKEN;"; cat column.sql; } | mysql app
--
-- Crash: the server rolls back uncommitted changes. The next holder has a larger token.
-- Database unavailable: if dlock cannot renew the lease in dlock's database in time, it stops the
--   command. If the machine was frozen, the command may continue after its lease has expired. When
--   the next holder has updated the row, the old command's SELECT fails with error 1242, and the
--   client exits without a COMMIT.
-- Rollback of a release: the rollback has a larger token than the release, like every later run. If
--   a backup of this table is restored, the table contains an older token, so tokens that were
--   already too old may be accepted again.
CREATE TABLE IF NOT EXISTS site (
  id INT PRIMARY KEY,
  state VARCHAR(16) NOT NULL,
  fence BIGINT UNSIGNED NOT NULL
);
INSERT IGNORE INTO site VALUES (1, 'new', 0);

START TRANSACTION;
-- Lock the row, so that no other transaction can change the fence before the COMMIT.
SELECT IF(MAX(fence)<=@token, 'current', (SELECT 'stale' UNION SELECT 'token')) AS fence
  FROM site WHERE id=1 FOR UPDATE;
UPDATE site SET state='up', fence=@token WHERE id=1;
COMMIT;
