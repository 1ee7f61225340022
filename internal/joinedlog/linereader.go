package joinedlog

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

// maxLine bounds a line, in bytes.
const maxLine = 64 << 20

// ErrLongLine says that a line is longer than any that is read.
var ErrLongLine = fmt.Errorf("the line is longer than %d MiB", maxLine>>20)

// LineReader reads lines of any length up to a bound.
type LineReader struct {
	in   *bufio.Reader
	long []byte // a line that does not fit into in
	read int64  // bytes
}

// NewLineReader makes one that reads ahead so many bytes.
func NewLineReader(in io.Reader, ahead int) *LineReader {
	return &LineReader{in: bufio.NewReaderSize(in, ahead)}
}

// Next is the next line, with its end where it has one, valid until the call after; io.EOF behind the last.
func (l *LineReader) Next() ([]byte, error) {
	l.long = l.long[:0]
	for {
		part, err := l.in.ReadSlice('\n')
		l.read += int64(len(part))
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			if l.long = append(l.long, part...); len(l.long) > maxLine {
				return nil, ErrLongLine
			}
			continue
		case errors.Is(err, io.EOF) && len(part)+len(l.long) == 0, err != nil && !errors.Is(err, io.EOF):
			return nil, err
		case len(l.long) == 0:
			return part, nil
		}
		l.long = append(l.long, part...)
		return l.long, nil
	}
}
