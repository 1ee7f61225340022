// Package dashboard is the page that each worker serves: the group's work and learning, live and over
// the last two hours. It reads the published status of the loops, and samples a few partitions a second;
// its cost does not grow with items or records. A page is made at most once a second, for all viewers.
//
// Each worker publishes a Summary to the others every five seconds (state.Registry), and serves the sum of
// all. So any worker's page is the group's. Package app starts a Dashboard; stream.Server serves its Handler.
package dashboard
