package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// reservedNames are the store's own keys, which a learner's hashes, "<name>:items" and the like, would resemble.
var reservedNames = []string{"e", "due", "deltas", "meta"}

// checkLearnerName: the name is a part of Redis keys and a metric label.
func checkLearnerName(s string) error {
	switch {
	case !learnerName.MatchString(s):
		return fmt.Errorf("a learner's name has only a to z, 0 to 9, '.', '_' and '-', not %s", quote(s))
	case slices.Contains(reservedNames, s):
		return fmt.Errorf("%s is taken by the worker's own keys in Redis; choose another name", s)
	case len(s) > longestLearner:
		return fmt.Errorf("a learner's name has at most %d characters, not %d", longestLearner, len(s))
	}
	return nil
}

const longestLearner = 64

// checkGroup: the group is a part of Redis keys, in the braces that select the slot, and of transactional ids. A name of dots would be a
// directory if used as a file name.
func checkGroup(s string) error {
	switch {
	case s == "":
		return errEmpty
	case !plainName.MatchString(s):
		return fmt.Errorf("a group has only letters, digits, '.', '_' and '-', not %s", quote(s))
	case strings.Trim(s, "._-") == "":
		return fmt.Errorf("a group has a letter or a digit, not only %s", quote(s))
	case len(s) > longestGroup:
		return fmt.Errorf("a group has at most %d characters, not %d", longestGroup, len(s))
	}
	return nil
}

const longestGroup = 200

// longestTopic is Kafka's limit.
const longestTopic = 249

var kafkasOwn = []string{"__consumer_offsets", "__transaction_state", "__share_group_state", "__cluster_metadata"}

var (
	groupName       = anything("name", "letters, digits, `.`, `_`, `-`; up to 200, with a letter or a digit", checkGroup)
	topicName       = anything("name", "a topic's name", checkTopic)
	topicNameOrNone = anything("name", "a topic's name, or empty", orEmpty(checkTopic))
	topicSuffix     = anything("name", "letters, digits, `.`, `_`, `-`", checkSuffix)
	registryURL     = unlessZero(anything("url", "http:// or https://", checkRegistryURL))
	hostName        = unlessZero(anything("name", "a host's name", orEmpty(checkHost)))
	listenAddress   = anything("address", "host:port, or empty", orEmpty(checkListen))
	serveAddress    = anything("address", "host:port", checkListen)
	redisAddresses  = addresses("at least one address is needed, as host:port")
	database        = wholeNumber(0, mostDatabase)
)

func checkListen(address string) error { return checkAddress(address, true) }

func checkTopic(s string) error {
	switch {
	case s == "":
		return errEmpty
	case s == "." || s == ".." || !plainName.MatchString(s):
		return fmt.Errorf("a topic's name has only letters, digits, '.', '_' and '-', not %s", quote(s))
	case len(s) > longestTopic:
		return fmt.Errorf("a topic's name has at most %d characters, not %d", longestTopic, len(s))
	case slices.Contains(kafkasOwn, s):
		return fmt.Errorf("%s is Kafka's own", s)
	}
	return nil
}

func checkSuffix(s string) error {
	if s == "" {
		return errors.New("is empty; without it dead letters would go back into their own topic")
	}
	if !plainName.MatchString(s) {
		return fmt.Errorf("a suffix has only letters, digits, '.', '_' and '-', not %s", quote(s))
	}
	return nil
}

const mostDatabase = 1 << 20
