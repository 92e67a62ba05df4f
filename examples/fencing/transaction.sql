-- Fencing without a column for the token. This file works only in the database that contains dlock's
-- tables. The account needs the privilege SELECT on dlock_fence. The command of
-- dlock exec --fence --action init runs this file:
--
--   { echo "SET @token=$DLOCK_TOKEN;"; cat transaction.sql; } | mysql app
--
-- dlock check --sql prints the SELECT below, with the token instead of the variable. The SELECT
-- fails with error 1242 if the token is stale, for example because init has been granted to another
-- holder. Otherwise, init is not granted to another contender before the COMMIT.
--
-- Crash: the server rolls back uncommitted changes. When the lease has expired, init can be granted
--   to the next contender.
-- Database unavailable: this transaction uses dlock's database, so it cannot be committed.
-- Rollback of a release: the rollback has a larger token than the release, like every later run.
START TRANSACTION;
SELECT IF(MAX(token)=@token, 'current', (SELECT 'stale' UNION SELECT 'token')) AS fence
  FROM dlock_fence WHERE action='init' LOCK IN SHARE MODE;
UPDATE site SET state='done' WHERE id=1;
COMMIT;
