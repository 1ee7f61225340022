package partition

// Names gives items' names numbers: dense, from 0, in the order in which they are first asked for. One Names may serve all machines
// of a process, which then keep a name once and not each for itself; its numbers are the process's own and are not stored. A
// machine's numbers, which are, it translates (catalogue).
type Names interface {
	// Numbers appends the numbers of names to dst, new ones where they have none yet.
	Numbers(dst []int32, names [][]byte) []int32
	// Number is that of a name, if it has one.
	Number(name []byte) (n int32, known bool)
	// Name is the name with a number that Numbers gave.
	Name(n int32) string
}

// NameTable is a Names for one goroutine.
type NameTable struct {
	numbers map[string]int32
	names   []string
}

var _ Names = (*NameTable)(nil)

// NewNameTable makes one without names.
func NewNameTable() *NameTable { return &NameTable{numbers: make(map[string]int32)} }

// Numbers implements Names.
func (t *NameTable) Numbers(dst []int32, names [][]byte) []int32 {
	for _, name := range names {
		n, known := t.numbers[string(name)]
		if !known {
			n = int32(len(t.names))
			s := string(name)
			t.numbers[s] = n
			t.names = append(t.names, s)
		}
		dst = append(dst, n)
	}
	return dst
}

// Known appends the numbers of names to dst as long as they have one, and so tells by its length which is the first that has none.
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

// Number implements Names.
func (t *NameTable) Number(name []byte) (n int32, known bool) {
	n, known = t.numbers[string(name)]
	return n, known
}

// Name implements Names.
func (t *NameTable) Name(n int32) string { return t.names[n] }
