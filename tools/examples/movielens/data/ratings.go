package data

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"
)

var ErrFormat = errors.New("not a file of ratings")

const header = "user_id:token\titem_id:token\trating:float\ttimestamp:float"

type Rating struct {
	User  string
	Film  string
	Value float64 // 1..5
	Time  int64   // seconds since the Unix epoch
}

// Payoff maps the rating to [0,1].
func (r Rating) Payoff() float64 { return (r.Value - 1) / 4 }

// eachLine passes on the lines after the header, by their numbers and their fields, which tabs separate. Faults name their line.
func eachLine(r io.Reader, header string, each func(number int, fields [4]string) error) error {
	lines, number := bufio.NewScanner(r), 1
	if !lines.Scan() || lines.Text() != header {
		return fmt.Errorf("line 1: the header is not %q: %w", header, errors.Join(ErrFormat, lines.Err()))
	}
	for number++; lines.Scan(); number++ {
		fields := strings.Split(lines.Text(), "\t")
		err := fmt.Errorf("%d fields instead of 4: %w", len(fields), ErrFormat)
		if len(fields) == 4 {
			err = each(number, [4]string(fields))
		}
		if err != nil {
			return fmt.Errorf("line %d: %w", number, err)
		}
	}
	if err := lines.Err(); err != nil {
		return fmt.Errorf("line %d: %w", number, err)
	}
	return nil
}

// ParseRatings reads ml-100k.inter, one rating a line. A second rating of a film by one user is a fault.
func ParseRatings(r io.Reader) (ratings []Rating, err error) {
	seen := map[[2]string]int{}
	err = eachLine(r, header, func(number int, fields [4]string) (err error) {
		rating := Rating{User: fields[0], Film: fields[1]}
		if rating.User == "" || rating.Film == "" {
			return fmt.Errorf("no user or no film: %w", ErrFormat)
		}
		if rating.Value, err = strconv.ParseFloat(fields[2], 64); err != nil || !(rating.Value >= 1 && rating.Value <= 5) {
			return fmt.Errorf("rating %q is not within 1..5: %w", fields[2], ErrFormat)
		}
		// The column is called a float, and holds whole seconds.
		if rating.Time, err = strconv.ParseInt(fields[3], 10, 64); err != nil || rating.Time < 0 || rating.Time > 1<<40 {
			return fmt.Errorf("timestamp %q is not in seconds: %w", fields[3], ErrFormat)
		}
		key := [2]string{rating.User, rating.Film}
		if first, ok := seen[key]; ok {
			return fmt.Errorf("user %s has rated film %s in line %d: %w", rating.User, rating.Film, first, ErrFormat)
		}
		seen[key] = number
		ratings = append(ratings, rating)
		return nil
	})
	return ratings, err
}

// Span returns the times of the first and the last rating.
func Span(ratings []Rating) (from, to time.Time) {
	var first, last int64
	for i, r := range ratings {
		if i == 0 || r.Time < first {
			first = r.Time
		}
		last = max(last, r.Time)
	}
	return time.Unix(first, 0).UTC(), time.Unix(last, 0).UTC()
}
