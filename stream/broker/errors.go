package broker

import (
	"errors"
	"fmt"

	"github.com/segmentio/kafka-go"

	"github.com/ranker-worker/ranker-worker/stream/task"
)

// brokerError gives a broker's error code the meaning it has for the task: one of task's errors in the chain, beside
// the code, or the code alone, which the task takes as passing.
func brokerError(code kafka.Error) error {
	switch code {
	case 0:
		return nil
	case kafka.OffsetOutOfRange:
		return fmt.Errorf("%w: %w", task.ErrOffsetOutOfRange, code)
	case kafka.InvalidProducerEpoch, kafka.ProducerFenced,
		// The transactional id has got another producer id meanwhile, or another state than ours: somebody else was here,
		// or the broker has forgotten us. Either way the fence has to begin anew.
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
	}
	return code
}

// codeOf is brokerError for kafka-go's own calls, whose errors are codes too.
func codeOf(err error) error {
	var code kafka.Error
	if errors.As(err, &code) {
		return brokerError(code)
	}
	return err
}
