// Package pages shows browsers what package view knows: pages made on the server, which need no script for
// reading, and a little script of our own for what changes while one looks.
//
// Guarantees: whatever an object is called, and whatever reason somebody gave, is text on the page and never
// anything else; nothing is loaded from elsewhere; an order is given by a form of this site alone, by who is
// signed in and may. Who is signed in is a cookie that scripts cannot read.
package pages
