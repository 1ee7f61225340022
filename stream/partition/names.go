package partition

// Names numbers item names: from 0, without gaps, in the order of first use. One Names may serve all machines of a process, which then keep
// each name once. Its numbers are not stored; itemIndex maps them to a learner's own.
type Names interface {
	// Numbers appends the numbers of names to dst. New names get new numbers.
	Numbers(dst []int32, names [][]byte) []int32
	// Number returns a name's number, if it has one.
	Number(name []byte) (n int32, known bool)
	// Name returns the name of a number that Numbers returned.
	Name(n int32) string
	// Texts appends the names of such numbers to dst.
	Texts(dst []string, numbers []int32) []string
}

// NameTable is a Names for one goroutine.
type NameTable struct {
	numbers map[string]int32
	names   []string
}

var _ Names = (*NameTable)(nil)

func NewNameTable() *NameTable { return &NameTable{numbers: make(map[string]int32)} }

func (t *NameTable) Numbers(dst []int32, names [][]byte) []int32 {
	for _, name := range names {
		n, known := t.numbers[string(name)]
		if !known {
			n = int32(len(t.names))
			t.names = append(t.names, string(name))
			t.numbers[t.names[n]] = n
		}
		dst = append(dst, n)
	}
	return dst
}

// Known appends the numbers of names up to the first that has none.
func (t *NameTable) Known(dst []int32, names [][]byte) []int32 {
	for _, name := range names {
		n, known := t.numbers[string(name)]
		if !known {
			break
		}
		dst = append(dst, n)
	}
	return dst
}

func (t *NameTable) Number(name []byte) (n int32, known bool) {
	n, known = t.numbers[string(name)]
	return n, known
}

func (t *NameTable) Name(n int32) string { return t.names[n] }

func (t *NameTable) Texts(dst []string, numbers []int32) []string {
	for _, n := range numbers { // cache misses overlap
		dst = append(dst, t.names[n])
	}
	return dst
}
