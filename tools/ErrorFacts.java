// Prints Kafka's error codes as facts: one line "code NAME retriable refresh" per constant.
//
// It is run from source (`java ErrorFacts.java kafka-clients.jar`). Errors wants a logger when it is
// loaded; the two types below stand in for one, so that the jar alone is enough. That works because
// the jar is opened by a loader whose parent has loaded this file.
package org.slf4j;

import java.lang.reflect.Method;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;

public class ErrorFacts {
    public static void main(String[] arguments) throws Exception {
        URL jar = Path.of(arguments[0]).toUri().toURL();
        ClassLoader loader = new URLClassLoader(new URL[] {jar}, ErrorFacts.class.getClassLoader());
        Class<?> errors = Class.forName("org.apache.kafka.common.protocol.Errors", true, loader);
        Class<?> retriable = loader.loadClass("org.apache.kafka.common.errors.RetriableException");
        Class<?> refresh = loader.loadClass("org.apache.kafka.common.errors.InvalidMetadataException");
        Method code = errors.getMethod("code");
        Method exception = errors.getMethod("exception");
        for (Object constant : errors.getEnumConstants()) {
            Object raised = exception.invoke(constant);
            System.out.println(code.invoke(constant) + " " + ((Enum<?>) constant).name()
                + " " + retriable.isInstance(raised) + " " + refresh.isInstance(raised));
        }
    }
}

public interface Logger {
    void warn(String format, Object argument);
}

public class LoggerFactory {
    public static Logger getLogger(Class<?> owner) {
        return null;
    }
}
