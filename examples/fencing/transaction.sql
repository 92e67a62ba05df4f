-- The same without a column, in the database of dlock's tables; the account needs SELECT on dlock_fence. In the
-- command of dlock exec --fence --action init:
--
--   { echo "SET @token=$DLOCK_TOKEN;"; cat transaction.sql; } | mysql app
--
-- The SELECT is that of dlock check --sql, with the token in a variable. It fails with error 1242 if another
-- has been granted init; otherwise nobody is granted it before the COMMIT.
--
-- Crash: what was not committed is rolled back, and the next holder can be granted init.
-- Database lost: that is where this transaction would be committed, so it is not.
-- Rollback of a release: has a larger token like every later run.
START TRANSACTION;
SELECT IF(MAX(token)=@token, 'current', (SELECT 'stale' UNION SELECT 'token')) AS fence
  FROM dlock_fence WHERE action='init' LOCK IN SHARE MODE;
UPDATE site SET state='done' WHERE id=1;
COMMIT;
