-- Fencing without a column for the token. This works only in the database that contains dlock's
-- tables. The account needs SELECT on dlock_fence. Run this in the command of
-- dlock exec --fence --action init:
--
--   { echo "SET @token=$DLOCK_TOKEN;"; cat transaction.sql; } | mysql app
--
-- dlock check --sql prints the SELECT below, with the token instead of the variable. The SELECT
-- fails with error 1242 if init has been granted to another holder. Otherwise, init is not granted
-- to another contender before the COMMIT.
--
-- Crash: the server rolls back uncommitted changes. init can then be granted to the next contender.
-- Database lost: this transaction uses the same database as dlock, so it cannot be committed.
-- Rollback of a release: the rollback has a larger token than the release, like every later run.
START TRANSACTION;
SELECT IF(MAX(token)=@token, 'current', (SELECT 'stale' UNION SELECT 'token')) AS fence
  FROM dlock_fence WHERE action='init' LOCK IN SHARE MODE;
UPDATE site SET state='done' WHERE id=1;
COMMIT;
