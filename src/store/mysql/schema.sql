-- The tables of dlock, schema version 3. All times are in UTC. All text is stored and compared as bytes.

-- One row: the version of these tables, and the lowest schema version of a dlock that works with them. Every command
-- checks both. This table is the first, so that the version is recorded before the other tables are created.
CREATE TABLE IF NOT EXISTS dlock_schema (
  id          TINYINT UNSIGNED NOT NULL DEFAULT 1 PRIMARY KEY, -- always 1, so that there is only one row
  version     INT UNSIGNED     NOT NULL,
  min_version INT UNSIGNED     NOT NULL
) ENGINE=InnoDB;

INSERT IGNORE INTO dlock_schema (id, version, min_version) VALUES (1, 3, 1);

-- The queue: one row for each waiter. dlock status shows the waiters. If named locks do not work, the rows define their
-- order.
CREATE TABLE IF NOT EXISTS dlock_waiter (
  position     BIGINT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY,
  action       VARBINARY(255)  NOT NULL,
  owner_id     VARBINARY(16)   NOT NULL UNIQUE,
  holder       VARBINARY(255)  NOT NULL,
  host         VARBINARY(255)  NOT NULL,
  pid          INT UNSIGNED    NOT NULL,
  user         VARBINARY(255)  NOT NULL,
  note         VARBINARY(1023) NOT NULL,
  pod          VARBINARY(255)  NOT NULL DEFAULT '',
  namespace    VARBINARY(255)  NOT NULL DEFAULT '',
  command      VARBINARY(255)  NOT NULL DEFAULT '',
  polls        TINYINT         NOT NULL,              -- 1: waits without the queue lock, updates last_seen_at
  server       VARBINARY(255)  NOT NULL,              -- server of the waiter's session
  session_id   BIGINT UNSIGNED NOT NULL,              -- id of the session on that server
  account      VARBINARY(255)  NOT NULL,              -- account of the session; it can see the session
  enqueued_at  DATETIME(6)     NOT NULL,
  last_seen_at DATETIME(6)     NOT NULL,
  waits_again  TINYINT         NOT NULL DEFAULT 0,    -- 1: has started another wait for the queue lock
  inside_action VARBINARY(255) NULL,                  -- the waiter belongs to the command of this action's holder
  inside_token BIGINT UNSIGNED NULL,                  -- token of that holder
  KEY queue (action, position)
) ENGINE=InnoDB;

-- One row for each success that --once records. It makes later runs of the action with the same key unnecessary.
CREATE TABLE IF NOT EXISTS dlock_success (
  action       VARBINARY(255)  NOT NULL,
  once_key     VARBINARY(255)  NOT NULL,              -- '': --once without a key
  token        BIGINT UNSIGNED NOT NULL,              -- token of the run
  holder       VARBINARY(255)  NOT NULL,
  host         VARBINARY(255)  NOT NULL,
  pid          INT UNSIGNED    NOT NULL,
  user         VARBINARY(255)  NOT NULL,
  note         VARBINARY(1023) NOT NULL,
  pod          VARBINARY(255)  NOT NULL DEFAULT '',
  namespace    VARBINARY(255)  NOT NULL DEFAULT '',
  command      VARBINARY(255)  NOT NULL DEFAULT '',
  done_at      DATETIME(6)     NOT NULL,
  PRIMARY KEY (action, once_key)
) ENGINE=InnoDB;

-- The latest entries of each action: one row for each completed run and for each operator request.
CREATE TABLE IF NOT EXISTS dlock_history (
  action       VARBINARY(255)  NOT NULL,
  token        BIGINT UNSIGNED NOT NULL,              -- token of the run
  kind         TINYINT         NOT NULL DEFAULT 0,    -- 0: a run; 1: dlock forget; 2: dlock release
  once_key     VARBINARY(255)  NULL,                  -- NULL: the run did not use --once
  holder       VARBINARY(255)  NOT NULL,
  host         VARBINARY(255)  NOT NULL,
  pid          INT UNSIGNED    NOT NULL,
  user         VARBINARY(255)  NOT NULL,
  note         VARBINARY(1023) NOT NULL,
  pod          VARBINARY(255)  NOT NULL DEFAULT '',
  namespace    VARBINARY(255)  NOT NULL DEFAULT '',
  command      VARBINARY(255)  NOT NULL DEFAULT '',
  started_at   DATETIME(6)     NOT NULL,
  ended_at     DATETIME(6)     NOT NULL,
  outcome      VARBINARY(16)   NOT NULL,              -- a run: exited, killed, lost, revoked
                                                      -- an operator request: forgotten, released, paused, resumed
  code         TINYINT UNSIGNED NULL,                 -- exit status or signal number
  sessions_ended INT UNSIGNED NULL,                   -- number of sessions on the server that dlock killed
  processes_killed INT UNSIGNED NULL,                 -- number of processes that the command left, and that were killed
  dlock_status TINYINT UNSIGNED NULL,                 -- exit status of dlock; NULL: the command's own
  waited_us    BIGINT UNSIGNED NULL,                  -- time that the holder waited before started_at; NULL: unknown
  slot         INT UNSIGNED    NULL,                  -- number of the slot; NULL: the lease was exclusive
  PRIMARY KEY (action, token, kind)
) ENGINE=InnoDB;

-- One row for each action that was run with exec --fence. The command can lock the row in a transaction. Renewals and
-- releases do not use this row, so they never wait for that lock.
CREATE TABLE IF NOT EXISTS dlock_fence (
  action       VARBINARY(255)  NOT NULL PRIMARY KEY,
  token        BIGINT UNSIGNED NOT NULL               -- token of the latest grant; release and pause may change it
) ENGINE=InnoDB;

-- The leases that allow others beside them. The rows of an action are permanent and numbered from 1. While one of them
-- may be held, owner_id in dlock_lock is 16 zero bytes.
CREATE TABLE IF NOT EXISTS dlock_slot (
  action          VARBINARY(255)  NOT NULL,
  slot            INT UNSIGNED    NOT NULL,
  slots           INT UNSIGNED    NULL,                -- largest number of leases at once, this one included; NULL: any
  token           BIGINT UNSIGNED NOT NULL DEFAULT 0,  -- fencing token of the latest grant
  owner_id        VARBINARY(16)   NULL,                -- owner id of the holder; NULL: free
  holder          VARBINARY(255)  NOT NULL DEFAULT '',
  host            VARBINARY(255)  NOT NULL DEFAULT '',
  pid             INT UNSIGNED    NOT NULL DEFAULT 0,
  user            VARBINARY(255)  NOT NULL DEFAULT '',
  note            VARBINARY(1023) NOT NULL DEFAULT '',
  pod             VARBINARY(255)  NOT NULL DEFAULT '',
  namespace       VARBINARY(255)  NOT NULL DEFAULT '',
  command         VARBINARY(255)  NOT NULL DEFAULT '',
  server          VARBINARY(255)  NOT NULL DEFAULT '', -- server of the holder's session
  session_id      BIGINT UNSIGNED NOT NULL DEFAULT 0,  -- id of the session on that server
  has_queue_lock  TINYINT         NOT NULL DEFAULT 0,  -- 1: that session has the named lock of this holder
  ttl_us          BIGINT UNSIGNED NOT NULL DEFAULT 0,  -- length of the lease in microseconds
  renewals        BIGINT UNSIGNED NOT NULL DEFAULT 0,  -- number of renewals since acquired_at
  acquired_at     DATETIME(6)     NULL,
  renewed_at      DATETIME(6)     NULL,
  expires_at      DATETIME(6)     NULL,
  released_at     DATETIME(6)     NULL,
  min_hold        TINYINT         NOT NULL DEFAULT 0,  -- 1: the run has ended, the lease is held for --min-hold
  revoked_at      DATETIME(6)     NULL,                -- time when an operator revoked the lease; it cannot be renewed
  sessions        VARBINARY(8191) NULL,                -- sessions of the command on this server, as JSON; NULL: none
  PRIMARY KEY (action, slot)
) ENGINE=InnoDB;

-- One row for each action. dlock prune deletes rows that nobody uses. The row with the empty name then contains the lowest
-- token of a new row, because tokens must never decrease.
CREATE TABLE IF NOT EXISTS dlock_lock (
  action          VARBINARY(255)  NOT NULL PRIMARY KEY,
  token           BIGINT UNSIGNED NOT NULL DEFAULT 0,  -- fencing token of the latest grant or operator request
  owner_id        VARBINARY(16)   NULL,                -- owner id of the holder; NULL: free
  holder          VARBINARY(255)  NOT NULL DEFAULT '',
  host            VARBINARY(255)  NOT NULL DEFAULT '',
  pid             INT UNSIGNED    NOT NULL DEFAULT 0,
  user            VARBINARY(255)  NOT NULL DEFAULT '',
  note            VARBINARY(1023) NOT NULL DEFAULT '',
  pod             VARBINARY(255)  NOT NULL DEFAULT '',
  namespace       VARBINARY(255)  NOT NULL DEFAULT '',
  command         VARBINARY(255)  NOT NULL DEFAULT '',
  server          VARBINARY(255)  NOT NULL DEFAULT '', -- server of the holder's session
  session_id      BIGINT UNSIGNED NOT NULL DEFAULT 0,  -- id of the session on that server
  has_queue_lock  TINYINT         NOT NULL DEFAULT 0,  -- 1: that session has the queue lock of the action
  ttl_us          BIGINT UNSIGNED NOT NULL DEFAULT 0,  -- length of the lease in microseconds
  renewals        BIGINT UNSIGNED NOT NULL DEFAULT 0,  -- number of renewals since acquired_at
  acquired_at     DATETIME(6)     NULL,
  renewed_at      DATETIME(6)     NULL,
  expires_at      DATETIME(6)     NULL,
  released_at     DATETIME(6)     NULL,
  fenced          TINYINT         NOT NULL DEFAULT 0,  -- 1: each grant advances the fence
  min_hold        TINYINT         NOT NULL DEFAULT 0,  -- 1: the run has ended, the lease is held for --min-hold
  succeeded_at    DATETIME(6)     NULL,                -- end of the latest run with status 0
  succeeded_token BIGINT UNSIGNED NULL,                -- token of that run
  succeeded_by    VARBINARY(255)  NULL,                -- holder of that run
  revoked_at      DATETIME(6)     NULL,                -- time when an operator revoked the lease; it cannot be renewed
  paused_until    DATETIME(6)     NULL,                -- end of the pause; the action is not granted before this time
  operator        VARBINARY(255)  NULL,                -- operator who made the latest operator request
  reason          VARBINARY(1023) NULL,                -- reason for that request
  sessions        VARBINARY(8191) NULL,                -- sessions of the command on this server, as JSON; NULL: none
  KEY owned (owner_id),
  KEY paused (paused_until)
) ENGINE=InnoDB;
