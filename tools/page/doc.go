// Package page tests the live page in a headless Chromium: content, updates without a reload, accessibility, both themes, phone and
// desktop, and that it fetches nothing from elsewhere. RANKER_TEST_SHOTS names a directory for screenshots.
package page
