import java.net.InetSocketAddress;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Future;
import java.util.concurrent.TimeUnit;
import net.rubyeye.xmemcached.XMemcachedClientBuilder;
import net.rubyeye.xmemcached.command.BinaryCommandFactory;
import net.rubyeye.xmemcached.command.TextCommandFactory;
import net.spy.memcached.BinaryConnectionFactory;
import net.spy.memcached.ConnectionFactory;
import net.spy.memcached.DefaultConnectionFactory;
import net.spy.memcached.MemcachedClient;

/** What spymemcached and xmemcached are answered by each of their protocols, a line for each call: java Clients PORT. */
public class Clients {
    private static final int AT_ONCE = 2_000;

    interface Call {
        Object make() throws Exception;
    }

    private static String client = "";

    private static void ask(String name, Call call) {
        Object answer;
        try {
            answer = call.make();
            if (answer instanceof Future<?> future) {
                answer = future.get(20, TimeUnit.SECONDS);
            }
        } catch (Exception error) {
            Throwable cause = error.getCause() == null ? error : error.getCause();
            answer = "error: " + cause.getClass().getSimpleName();
        }
        System.out.println(client + " " + name + ": " + answer);
    }

    private static List<String> keys() {
        List<String> keys = new ArrayList<>();
        for (int number = 0; number < AT_ONCE; number++) {
            keys.add("key" + number);
        }
        return keys;
    }

    private static long alike(Map<String, ?> values) {
        return keys().stream().filter(key -> ("value of " + key).equals(values.get(key))).count();
    }

    private static String large() {
        StringBuilder text = new StringBuilder();
        for (int place = 0; place < 900_000; place++) {
            text.append((char) ('a' + place * 7_919 % 26));
        }
        return text.toString();
    }

    private static void spymemcached(String protocol, ConnectionFactory factory, int port) throws Exception {
        client = "spymemcached, " + protocol + ":";
        MemcachedClient cache = new MemcachedClient(factory, List.of(new InetSocketAddress("127.0.0.1", port)));
        ask("flush", () -> cache.flush());
        ask("get none", () -> cache.get("none"));
        ask("set", () -> cache.set("key", 100, "value"));
        ask("get", () -> cache.get("key"));
        ask("set object", () -> cache.set("object", 100, new ArrayList<>(List.of(1, "x", 3.5))));
        ask("get object", () -> cache.get("object"));
        ask("set number", () -> cache.set("number", 0, 12_345));
        ask("get number", () -> cache.get("number"));
        ask("add", () -> cache.add("key", 0, "x"));
        ask("add other", () -> cache.add("other", 0, "x"));
        ask("replace", () -> cache.replace("other", 0, "y"));
        ask("replace none", () -> cache.replace("none", 0, "y"));
        ask("append", () -> cache.append("other", "z"));
        ask("prepend", () -> cache.prepend("other", "a"));
        ask("get other", () -> cache.get("other"));
        ask("gets", () -> cache.gets("key").getValue());
        ask("cas", () -> cache.cas("key", cache.gets("key").getCas(), "newer"));
        ask("cas of an older one", () -> cache.cas("key", 1L, "no"));
        ask("cas of none", () -> cache.cas("none", 1L, "no"));
        ask("incr, new", () -> cache.incr("count", 5, 7));
        ask("incr", () -> cache.incr("count", 5, 7));
        ask("decr", () -> cache.decr("count", 100));
        ask("incr none", () -> cache.incr("none", 1));
        ask("incr text", () -> cache.incr("key", 1));
        ask("touch", () -> cache.touch("key", 10));
        ask("touch none", () -> cache.touch("none", 10));
        ask("get and touch", () -> cache.getAndTouch("key", 10).getValue());
        ask("delete", () -> cache.delete("key"));
        ask("delete again", () -> cache.delete("key"));
        ask("many at once", () -> {
            keys().forEach(key -> cache.set(key, 0, "value of " + key));
            return alike(cache.getBulk(keys()));
        });
        ask("set large", () -> cache.set("large", 0, large()));
        ask("get large", () -> large().equals(cache.get("large")));
        ask("versions", () -> cache.getVersions().size());
        ask("stats", () -> cache.getStats().values().iterator().next().containsKey("curr_items"));
        ask("flush", () -> cache.flush());
        ask("get flushed", () -> cache.get("key1"));
        cache.shutdown(1, TimeUnit.SECONDS);
    }

    private static void xmemcached(boolean isBinary, int port) throws Exception {
        client = "xmemcached, " + (isBinary ? "binary:" : "text:");
        var builder = new XMemcachedClientBuilder(List.of(new InetSocketAddress("127.0.0.1", port)));
        builder.setCommandFactory(isBinary ? new BinaryCommandFactory() : new TextCommandFactory());
        // What is said without asking for an answer has to come before what is asked next.
        builder.setConnectionPoolSize(1);
        var cache = builder.build();
        cache.setOpTimeout(20_000);
        cache.flushAll();
        ask("set", () -> cache.set("key", 100, "value"));
        ask("get", () -> cache.get("key"));
        ask("add", () -> cache.add("key", 0, "x"));
        ask("replace", () -> cache.replace("key", 0, "yy"));
        ask("append", () -> cache.append("key", "zz"));
        ask("prepend", () -> cache.prepend("key", "aa"));
        ask("get", () -> cache.get("key"));
        ask("cas", () -> cache.cas("key", 0, "newer", cache.gets("key").getCas()));
        ask("cas of an older one", () -> cache.cas("key", 0, "no", 1L));
        ask("incr, new", () -> cache.incr("count", 5, 7));
        ask("incr", () -> cache.incr("count", 5));
        ask("decr", () -> cache.decr("count", 100));
        ask("touch", () -> cache.touch("key", 10));
        ask("get and touch", () -> cache.getAndTouch("key", 10));
        ask("delete", () -> cache.delete("key"));
        ask("delete again", () -> cache.delete("key"));
        ask("many without answers", () -> {
            for (String key : keys()) {
                cache.setWithNoReply(key, 0, "value of " + key);
            }
            cache.deleteWithNoReply("key1");
            return cache.get("key1") + " " + alike(cache.get(keys()));
        });
        ask("versions", () -> cache.getVersions().size());
        ask("stats", () -> cache.getStats().values().iterator().next().containsKey("threads"));
        cache.shutdown();
    }

    public static void main(String[] words) throws Exception {
        int port = Integer.parseInt(words[0]);
        spymemcached("text", new DefaultConnectionFactory(), port);
        spymemcached("binary", new BinaryConnectionFactory(), port);
        xmemcached(false, port);
        xmemcached(true, port);
        System.out.println("end");
        System.exit(0);
    }
}
