// Package dashboard is the page that each worker serves: what the group does and learns, live, and over the last two hours. It reads what
// the loops publish anyway, and asks a few partitions a second for a look; nothing that it does grows with the number of items or
// records. What it shows is made once a second at most, and shared by all who look.
//
// Each worker publishes a Summary of itself to the others every five seconds (state.Registry), and serves the sum of all, so that any
// worker's page is the group's.
package dashboard
