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

// ParseRatings reads ml-100k.inter: a header, then one rating a line, with fields separated by tabs. Faults name their line. A second
// rating of a film by one user is a fault.
func ParseRatings(r io.Reader) ([]Rating, error) {
	lines := bufio.NewScanner(r)
	if !lines.Scan() || lines.Text() != header {
		return nil, fmt.Errorf("line 1: the header is not %q: %w", header, errors.Join(ErrFormat, lines.Err()))
	}
	var ratings []Rating
	seen := map[[2]string]int{}
	number := 1
	for lines.Scan() {
		number++
		rating, err := parseRating(lines.Text())
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		key := [2]string{rating.User, rating.Film}
		if first, ok := seen[key]; ok {
			return nil, fmt.Errorf("line %d: user %s has rated film %s in line %d: %w",
				number, rating.User, rating.Film, first, ErrFormat)
		}
		seen[key] = number
		ratings = append(ratings, rating)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("line %d: %w", number+1, err)
	}
	return ratings, nil
}

func parseRating(line string) (Rating, error) {
	fields := strings.Split(line, "\t")
	if len(fields) != 4 {
		return Rating{}, fmt.Errorf("%d fields instead of 4: %w", len(fields), ErrFormat)
	}
	rating := Rating{User: fields[0], Film: fields[1]}
	if rating.User == "" || rating.Film == "" {
		return Rating{}, fmt.Errorf("no user or no film: %w", ErrFormat)
	}
	var err error
	if rating.Value, err = strconv.ParseFloat(fields[2], 64); err != nil || !(rating.Value >= 1 && rating.Value <= 5) {
		return Rating{}, fmt.Errorf("rating %q is not within 1..5: %w", fields[2], ErrFormat)
	}
	// The column is called a float, and holds whole seconds.
	if rating.Time, err = strconv.ParseInt(fields[3], 10, 64); err != nil || rating.Time < 0 || rating.Time > 1<<40 {
		return Rating{}, fmt.Errorf("timestamp %q is not in seconds: %w", fields[3], ErrFormat)
	}
	return rating, nil
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
