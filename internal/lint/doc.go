// Package lint holds the architecture's rules, as tests: which package may import and use which. The core packages are pure functions of
// their inputs. They use no clock, network, goroutine, lock, logger or global source of random numbers. That is why a replay reaches the
// same state. Other tests here bound the words of comments and documentation.
package lint
