package session

import "encoding/binary"

// frames follows one direction of a connection: frames of a length in four bytes, and as many bytes.
type frames struct {
	head [4]byte
	have int   // bytes of head
	left int64 // unread bytes of the frame, once its head is complete
	lost bool  // a length was impossible: the start of frames is unknown
}

func (f *frames) between() bool { return f.have == 0 && !f.lost }

// pass reads the next bytes, in any pieces, and counts the frames that begin and that end in them.
func (f *frames) pass(b []byte) (begun, ended int64) {
	for len(b) > 0 && !f.lost {
		if f.have < len(f.head) {
			if f.have == 0 {
				begun++
			}
			n := copy(f.head[f.have:], b)
			f.have += n
			b = b[n:]
			if f.have < len(f.head) {
				return begun, ended
			}
			f.left = int64(int32(binary.BigEndian.Uint32(f.head[:])))
			f.lost = f.left < 0
		} else {
			n := min(f.left, int64(len(b)))
			f.left -= n
			b = b[n:]
		}
		if f.left == 0 {
			f.have = 0
			ended++
		}
	}
	return begun, ended
}
