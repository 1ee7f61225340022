// Package data turns MovieLens-100k into a stream of impressions and reactions: real users, films and ratings; only windows and the choice
// of users and films are drawn.
//
//   - Impression: a user, drawn with replacement among those with at least MinRatings ratings, with Candidates (20) different films that
//     this user has rated, so that every payoff is known.
//   - Utility of a film: its popularity, the number of ratings in the whole data set. The same for every user.
//   - Payoff: this user's own rating r of the selected film, from 1..5 mapped to [0,1] by (r−1)/4.
//   - Window: P(w) ∝ 0.7^(w−1) on 1..Candidates.
//   - Delay of the payoff: a gap of the data, drawn with replacement. A gap is the time above zero between two consecutive ratings of a
//     user: 48,496 gaps of at least a second. Median 37 s, mean 10.9 h, 90 % below 3 minutes, 2.8 % above a day, the longest 202 days.
//   - Pace: impressions are spread evenly over the data's time, 214.8 days, unless Config says otherwise.
//
// The ratings are those of the GroupLens research project at the University of Minnesota, see
// https://grouplens.org/datasets/movielens/100k/; the file is not part of this repository. Everything drawn comes from the seed of a
// Config: the same file and Config give the same stream.
package data
