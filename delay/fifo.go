package delay

// fifo is a queue of payoffs. Each has an index, which rises by one from payoff to payoff; those in [head, tail)
// wait. Memory shrinks as they leave.
type fifo struct {
	ring       []float64 // payoff k is at k modulo the length, a power of two
	head, tail int64
}

// leastRing is the length of the shortest ring: most items never queue more. It is never freed.
const leastRing = 4

func (f *fifo) len() int64 { return f.tail - f.head }

// at returns payoff k, which must be waiting.
func (f *fifo) at(k int64) float64 { return f.ring[k&int64(len(f.ring)-1)] }

func (f *fifo) push(payoff float64) {
	if f.len() == int64(len(f.ring)) {
		f.resize(max(leastRing, 2*len(f.ring)))
	}
	f.ring[f.tail&int64(len(f.ring)-1)] = payoff
	f.tail++
}

// pop removes the oldest payoff; the queue must not be empty.
func (f *fifo) pop() float64 {
	payoff := f.at(f.head)
	f.head++
	if len(f.ring) > leastRing && f.len() <= int64(len(f.ring)/4) {
		f.resize(len(f.ring) / 2)
	}
	return payoff
}

func (f *fifo) resize(length int) {
	ring := make([]float64, length)
	for k := f.head; k < f.tail; k++ {
		ring[k&int64(length-1)] = f.at(k)
	}
	f.ring = ring
}
