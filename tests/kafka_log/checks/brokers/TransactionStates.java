import java.util.stream.Collectors;
import org.apache.kafka.coordinator.transaction.TransactionState;

/** One line per state of a transactional id: its number, its name, and the numbers of those before it. */
public final class TransactionStates {
    public static void main(String[] arguments) {
        for (TransactionState state : TransactionState.values()) {
            String before = state.validPreviousStates().stream()
                .map(each -> Integer.toString(each.id())).sorted().collect(Collectors.joining(","));
            System.out.println(state.id() + "\t" + state.stateName() + "\t" + before);
        }
    }
}
