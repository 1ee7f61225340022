// Package data turns MovieLens-100k into a stream of impressions with everything that happens afterwards: real users,
// real films and real ratings; only the windows and the choice of who looks at what are drawn.
//
//   - Impression: a user, drawn with replacement among those with at least MinRatings ratings, in front of Candidates
//     (20) different films, drawn among those that this very user has rated, so that every payoff is known.
//   - Utility of a film: its popularity, the number of ratings in the whole data set. The same for every user.
//   - Payoff: this user's own rating r of the selected film, from 1..5 mapped to [0,1] by (r−1)/4.
//   - Window: P(w) ∝ 0.7^(w−1) on 1..Candidates.
//   - Delay of the payoff: a gap of the data itself, drawn with replacement. A gap is the time between two consecutive
//     ratings of one user, where that is more than zero: 48,496 gaps of at least a second. They are as uneven as
//     people are: median 37 s, mean 10.9 h, 90 % below 3 minutes, 2.8 % above a day, the longest 202 days.
//   - Pace: the impressions are spread evenly over the time that the data covers, 214.8 days, unless Config says
//     otherwise.
//
// The ratings are those of the GroupLens research project at the University of Minnesota, see
// https://grouplens.org/datasets/movielens/100k/; the file is not part of this repository. Everything drawn comes
// from the seed of a Config: the same file and Config give the same stream.
package data
