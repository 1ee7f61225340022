package data

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

const filmsHeader = "item_id:token\tmovie_title:token_seq\trelease_year:token\tclass:token_seq"

// Genres are those of MovieLens-100k, in the order of Film.Genres.
var Genres = []string{"Action", "Adventure", "Animation", "Children's", "Comedy", "Crime", "Documentary", "Drama", "Fantasy", "Film-Noir", "Horror",
	"Musical", "Mystery", "Romance", "Sci-Fi", "Thriller", "War", "Western"}

// Film is a film's data apart from ratings.
type Film struct {
	Year   int    // of its release; 0: unknown
	Genres []bool // as Genres
}

// First and last year of release in MovieLens-100k.
const (
	firstYear = 1922
	lastYear  = 1998
)

// ParseFilms reads ml-100k.item, one film a line, with genres separated by blanks.
func ParseFilms(r io.Reader) (map[string]Film, error) {
	films := map[string]Film{}
	return films, eachLine(r, filmsHeader, func(_ int, fields [4]string) error {
		if fields[0] == "" {
			return fmt.Errorf("no film: %w", ErrFormat)
		}
		f := Film{Genres: make([]bool, len(Genres))}
		if n, err := strconv.Atoi(fields[2]); err == nil { // two films have other text here
			if n < firstYear || n > lastYear {
				return fmt.Errorf("year %d is not from %d to %d: %w", n, firstYear, lastYear, ErrFormat)
			}
			f.Year = n
		}
		for _, genre := range strings.Fields(fields[3]) {
			if at := slices.Index(Genres, genre); at >= 0 {
				f.Genres[at] = true
			} else if genre != "unknown" {
				return fmt.Errorf("genre %q: %w", genre, ErrFormat)
			}
		}
		films[fields[0]] = f
		return nil
	})
}

// Features returns a film's age, from 0 to 1, and 0 or 1 for each genre. A film of unknown year counts as new, like most.
func (f Film) Features() []float64 {
	all := make([]float64, 1+len(Genres))
	if f.Year > 0 {
		all[0] = float64(lastYear-f.Year) / (lastYear - firstYear)
	}
	for i, is := range f.Genres {
		if is {
			all[1+i] = 1
		}
	}
	return all
}
