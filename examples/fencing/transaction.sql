-- Fencing without a column, in the database that has dlock's tables. The account needs SELECT on
-- dlock_fence. In the command of dlock exec --fence --action init:
--
--   { echo "SET @token=$DLOCK_TOKEN;"; cat transaction.sql; } | mysql app
--
-- The SELECT is the one that dlock check --sql prints, with the token in a variable. It fails with
-- error 1242 if init has been granted to another holder. Otherwise init is not granted to another
-- contender before the COMMIT.
--
-- Crash: uncommitted changes are rolled back, and the next contender can be granted init.
-- Database lost: this transaction uses the same database, so it cannot be committed.
-- Rollback of a release: the run has a larger token, like every later run.
START TRANSACTION;
SELECT IF(MAX(token)=@token, 'current', (SELECT 'stale' UNION SELECT 'token')) AS fence
  FROM dlock_fence WHERE action='init' LOCK IN SHARE MODE;
UPDATE site SET state='done' WHERE id=1;
COMMIT;
