-- The tables of dlock, schema version 1. All times are UTC, all texts are bytes.

-- One row: the version of this schema, checked by every command.
CREATE TABLE IF NOT EXISTS dlock_schema (
  version INT UNSIGNED NOT NULL PRIMARY KEY
) ENGINE=InnoDB;

INSERT INTO dlock_schema (version)
  SELECT 1 FROM (SELECT COUNT(*) AS versions FROM dlock_schema) AS present
  WHERE present.versions = 0;

-- One row a waiter, as long as it stands in line: for status, and for order where there is no gate.
CREATE TABLE IF NOT EXISTS dlock_waiter (
  position   BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  action     VARBINARY(255)  NOT NULL,
  claim      VARBINARY(16)   NOT NULL UNIQUE,
  holder     VARBINARY(255)  NOT NULL,
  host       VARBINARY(255)  NOT NULL,
  pid        INT UNSIGNED    NOT NULL,
  user       VARBINARY(255)  NOT NULL,
  note       VARBINARY(1023) NOT NULL,
  pod        VARBINARY(255)  NOT NULL DEFAULT '',
  namespace  VARBINARY(255)  NOT NULL DEFAULT '',
  command    VARBINARY(255)  NOT NULL DEFAULT '',
  polls      TINYINT         NOT NULL,             -- 1: has no gate to wait at, renews seen_at
  server     VARBINARY(255)  NOT NULL,             -- where its session lives
  session_id BIGINT UNSIGNED NOT NULL,
  account    VARBINARY(255)  NOT NULL,             -- whose session it is: who may see it
  since      DATETIME(6)     NOT NULL,
  seen_at    DATETIME(6)     NOT NULL,
  KEY line (action, position)
) ENGINE=InnoDB;

-- One row a success that --once is to remember: the run that it names need not be run again.
CREATE TABLE IF NOT EXISTS dlock_done (
  action   VARBINARY(255)  NOT NULL,
  once_key VARBINARY(255)  NOT NULL,               -- '': --once without a key
  token    BIGINT UNSIGNED NOT NULL,               -- of the run
  holder   VARBINARY(255)  NOT NULL,
  host     VARBINARY(255)  NOT NULL,
  pid      INT UNSIGNED    NOT NULL,
  user     VARBINARY(255)  NOT NULL,
  note     VARBINARY(1023) NOT NULL,
  pod      VARBINARY(255)  NOT NULL DEFAULT '',
  namespace VARBINARY(255)  NOT NULL DEFAULT '',
  command  VARBINARY(255)  NOT NULL DEFAULT '',
  done_at  DATETIME(6)     NOT NULL,
  PRIMARY KEY (action, once_key)
) ENGINE=InnoDB;

-- One row a run that is over, the last ones of each action; and one for what somebody did by hand.
CREATE TABLE IF NOT EXISTS dlock_run (
  action   VARBINARY(255)  NOT NULL,
  token    BIGINT UNSIGNED NOT NULL,               -- of the run
  deed     TINYINT         NOT NULL DEFAULT 0,     -- 0: a run; 1: dlock forget; 2: dlock release
  once_key VARBINARY(255)  NULL,                   -- NULL: it was no --once
  holder   VARBINARY(255)  NOT NULL,
  host     VARBINARY(255)  NOT NULL,
  pid      INT UNSIGNED    NOT NULL,
  user     VARBINARY(255)  NOT NULL,
  note     VARBINARY(1023) NOT NULL,
  pod      VARBINARY(255)  NOT NULL DEFAULT '',
  namespace VARBINARY(255)  NOT NULL DEFAULT '',
  command  VARBINARY(255)  NOT NULL DEFAULT '',
  began_at DATETIME(6)     NOT NULL,
  ended_at DATETIME(6)     NOT NULL,
  ending   VARBINARY(16)   NOT NULL,               -- exited, killed, lost, broken; forgotten; released, closed, reopened
  number   TINYINT UNSIGNED NULL,                  -- status or signal
  PRIMARY KEY (action, token, deed)
) ENGINE=InnoDB;

-- One row an action of exec --fence: what its command locks for the time of a transaction. A row of
-- its own, so that renewals and the release never wait for that; only a grant does.
CREATE TABLE IF NOT EXISTS dlock_fence (
  action VARBINARY(255)  NOT NULL PRIMARY KEY,
  token  BIGINT UNSIGNED NOT NULL                  -- of the last grant
) ENGINE=InnoDB;

-- One permanent row an action. Rows are never deleted: the token must only grow.
CREATE TABLE IF NOT EXISTS dlock_lock (
  action      VARBINARY(255)  NOT NULL PRIMARY KEY,
  token       BIGINT UNSIGNED NOT NULL DEFAULT 0,  -- fencing token of the last grant
  claim       VARBINARY(16)   NULL,                -- who holds it; NULL: free
  holder      VARBINARY(255)  NOT NULL DEFAULT '',
  host        VARBINARY(255)  NOT NULL DEFAULT '',
  pid         INT UNSIGNED    NOT NULL DEFAULT 0,
  user        VARBINARY(255)  NOT NULL DEFAULT '',
  note        VARBINARY(1023) NOT NULL DEFAULT '',
  pod         VARBINARY(255)  NOT NULL DEFAULT '',
  namespace   VARBINARY(255)  NOT NULL DEFAULT '',
  command     VARBINARY(255)  NOT NULL DEFAULT '',
  server      VARBINARY(255)  NOT NULL DEFAULT '', -- where the holder's session lives
  session_id  BIGINT UNSIGNED NOT NULL DEFAULT 0,  -- its id there
  gated       TINYINT         NOT NULL DEFAULT 0,  -- 1: that session has the action's gate
  ttl_us      BIGINT UNSIGNED NOT NULL DEFAULT 0,  -- microseconds
  renewals    BIGINT UNSIGNED NOT NULL DEFAULT 0,  -- since acquired_at
  acquired_at DATETIME(6)     NULL,
  renewed_at  DATETIME(6)     NULL,
  expires_at  DATETIME(6)     NULL,
  released_at DATETIME(6)     NULL,
  fenced      TINYINT         NOT NULL DEFAULT 0,  -- 1: each grant raises the fence
  kept        TINYINT         NOT NULL DEFAULT 0,  -- 1: the run is over, --min-hold keeps the lease
  succeeded_at    DATETIME(6)     NULL,            -- last end of a run with status 0
  succeeded_token BIGINT UNSIGNED NULL,            -- and its token
  succeeded_by    VARBINARY(255)  NULL,            -- and its holder
  broken_at    DATETIME(6)     NULL,               -- when somebody ended the lease: not to be renewed
  closed_until DATETIME(6)     NULL,               -- when it may be granted again
  operator     VARBINARY(255)  NULL,               -- who did the one or the other last
  reason       VARBINARY(1023) NULL,               -- and why
  KEY claimed (claim),
  KEY closed (closed_until)
) ENGINE=InnoDB;
