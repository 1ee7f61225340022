package task

// What the bounds' test, which imports package broker, needs to see.
const (
	BatchOverhead  = batchOverhead
	RecordOverhead = recordOverhead
	HeaderOverhead = headerOverhead
)

func BatchRoom(limit int) int { return batchRoom(limit) }
