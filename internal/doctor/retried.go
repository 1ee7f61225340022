package doctor

import (
	"context"
	"errors"
	"time"

	"github.com/segmentio/kafka-go"
)

// retried repeats a request while a coordinator starts: Kafka creates the coordinators' topics at the first request.
func retried[T any](ctx context.Context, ask func() (T, error)) (T, error) {
	const pause, tries = 200 * time.Millisecond, 25
	for try := 0; ; try++ {
		got, err := ask()
		young := errors.Is(err, kafka.GroupCoordinatorNotAvailable) || errors.Is(err, kafka.GroupLoadInProgress) ||
			errors.Is(err, kafka.NotCoordinatorForGroup)
		if !young || try == tries {
			return got, err
		}
		select {
		case <-ctx.Done():
			return got, err
		case <-time.After(pause):
		}
	}
}
