package broker

import (
	"fmt"

	"github.com/segmentio/kafka-go"

	"github.com/ranker-worker/ranker-worker/stream/task"
)

// brokerError returns an answer's error, with one of package task's errors if the code has a meaning there; nil for 0. Tasks treat a bare
// code as transient.
func brokerError(number int16) error {
	switch code := kafka.Error(number); code {
	case 0:
		return nil
	case kafka.OffsetOutOfRange:
		return fmt.Errorf("%w: %w", task.ErrOffsetOutOfRange, code)
	case kafka.InvalidProducerEpoch, kafka.ProducerFenced,
		// The transactional id has another producer id or state: another owner has fenced us, or the coordinator has dropped it. In both
		// cases the fence has to be repeated.
		kafka.InvalidProducerIDMapping, kafka.InvalidTransactionState:
		return fmt.Errorf("%w: %w", task.ErrFenced, code)
	case kafka.OutOfOrderSequenceNumber, kafka.UnknownProducerId:
		return fmt.Errorf("%w: %w", task.ErrSequence, code)
	case kafka.MessageSizeTooLarge, kafka.RecordListTooLarge:
		return fmt.Errorf("%w: %w", task.ErrTooLarge, code)
	case kafka.InvalidTimestamp:
		return fmt.Errorf("%w: %w", task.ErrTimestamp, code)
	case kafka.InvalidRecord:
		return fmt.Errorf("%w: %w", task.ErrInvalidRecord, code)
	case kafka.GroupLoadInProgress, kafka.GroupCoordinatorNotAvailable, kafka.NotCoordinatorForGroup, kafka.ConcurrentTransactions:
		return fmt.Errorf("%w: %w", task.ErrNotReady, code)
	case kafka.UnsupportedVersion, kafka.UnsupportedForMessageFormat, kafka.UnsupportedCompressionType:
		return fmt.Errorf("%w: %w", task.ErrUnsupported, code)
	default:
		return code
	}
}
