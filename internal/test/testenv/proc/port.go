package proc

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are drawn below the ephemeral range (from 32768 on Linux, 49152 elsewhere), so that a restarted server finds its old port free.
const (
	firstPort = 15000
	lastPort  = 32000
)

// FreePorts returns n different free ports of 127.0.0.1. Another process may take one before the caller does, which then asks again.
func FreePorts(n int) ([]int, error) {
	ports := make([]int, 0, n)
	for range 200 {
		if len(ports) == n {
			return ports, nil
		}
		port := firstPort + rand.IntN(lastPort-firstPort)
		// Held open until all are found, so that they differ.
		l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err != nil {
			continue
		}
		defer func() { _ = l.Close() }()
		ports = append(ports, port)
	}
	return nil, fmt.Errorf("no %d free ports on 127.0.0.1 between %d and %d", n, firstPort, lastPort)
}
