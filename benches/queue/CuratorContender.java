/*
 * A contender with Apache Curator: acquires a lock on ZooKeeper, holds it for a time, and records when.
 *
 * Usage: CuratorContender ADDRESS NAME SHAPE READY LOG LABEL HOLD
 *
 * The arguments are those of kazoo_contender.py. A JVM loads a class at its first use, but a service that uses Curator
 * has loaded the classes already. Therefore the contender acquires a lock of its own twice before it creates READY.
 */

import java.io.FileInputStream;
import java.nio.file.*;
import java.util.concurrent.*;
import org.apache.curator.framework.*;
import org.apache.curator.framework.recipes.locks.*;
import org.apache.curator.retry.RetryOneTime;

class CuratorContender {
    record Span(long start, long end) {}

    public static void main(String[] arguments) throws Exception {
        String path = "/" + arguments[1], shape = arguments[2], label = arguments[5], until = arguments[6];
        var client = CuratorFrameworkFactory.newClient(arguments[0], new RetryOneTime(1000));
        client.start();
        loadClasses(client, path + "-" + label, shape);
        Files.createFile(Path.of(arguments[3]));
        Span span = lock(client, path, shape, until);
        client.close();
        String line = label + " " + span.start + " " + span.end + "\n";
        Files.writeString(Path.of(arguments[4]), line, StandardOpenOption.APPEND);
    }

    /** Acquires a lock in two threads, one of which waits for the other. */
    static void loadClasses(CuratorFramework client, String path, String shape) throws Exception {
        boolean isSize = Character.isDigit(shape.charAt(0));
        var other = new FutureTask<>(() -> lock(client, path, isSize ? "1" : "exclusive", "10000"));
        new Thread(other).start();
        lock(client, path, isSize ? "1" : shape, "10000");
        other.get();
    }

    static Span lock(CuratorFramework client, String path, String shape, String until) throws Exception {
        if (Character.isDigit(shape.charAt(0))) {
            var semaphore = new InterProcessSemaphoreV2(client, path, Integer.parseInt(shape));
            Lease lease = semaphore.acquire();
            Span span = hold(until);
            semaphore.returnLease(lease);
            return span;
        }
        var locks = new InterProcessReadWriteLock(client, path);
        InterProcessMutex lock = shape.equals("shared") ? locks.readLock() : locks.writeLock();
        lock.acquire();
        Span span = hold(until);
        lock.release();
        return span;
    }

    /** Waits for a time, or until a fifo is closed. On Linux, nanoTime is CLOCK_MONOTONIC. */
    static Span hold(String until) throws Exception {
        long start = System.nanoTime();
        if (until.startsWith("/")) {
            try (var fifo = new FileInputStream(until)) {
                while (fifo.read() >= 0) {}
            }
        } else {
            TimeUnit.MICROSECONDS.sleep(Long.parseLong(until));
        }
        return new Span(start, System.nanoTime());
    }
}
