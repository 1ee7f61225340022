package joinedlog

import (
	"bufio"
	"errors"
	"fmt"
	"io"
)

const maxLine = 64 << 20

// ErrLongLine is returned for a line beyond the bound.
var ErrLongLine = fmt.Errorf("the line is longer than %d MiB", maxLine>>20)

// LineReader reads lines of bounded length.
type LineReader struct {
	in   *bufio.Reader
	long []byte // a line that exceeds in's buffer
	read int64  // bytes
}

// NewLineReader returns one with a buffer of so many bytes.
func NewLineReader(in io.Reader, ahead int) *LineReader {
	return &LineReader{in: bufio.NewReaderSize(in, ahead)}
}

// Next returns the next line, with its end if it has one, valid until the next call; io.EOF after the last.
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
