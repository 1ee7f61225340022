package kafka

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLostMarkersAreFound(t *testing.T) {
	const lost = "09:58:08.797 [TxnMarkerSenderThread-1] INFO org.apache.kafka.clients.NetworkClient - " +
		"[TransactionCoordinator id=1] Disconnecting from node 1 due to request timeout."
	const other = "09:58:09.001 [broker-1-to-controller-heartbeat-channel-manager] INFO org.apache.kafka.clients.NetworkClient - " +
		"[NodeToControllerChannelManager id=1 name=heartbeat] Disconnecting from node 1 due to request timeout."
	require.Empty(t, lostMarkers(nil))
	require.Equal(t, []string{lost, lost}, lostMarkers([]byte(other+"\n"+lost+"\n"+other+"\n"+lost)))
}
