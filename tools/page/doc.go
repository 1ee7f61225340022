// Package page tests the live page in a real browser, a headless Chromium: what it shows, that it changes without being loaded again,
// that it can be read by everybody, in both themes, on a phone and on a desk, and that it fetches nothing from elsewhere.
//
// RANKER_TEST_SHOTS names a directory in which it leaves pictures of what it has seen.
package page
