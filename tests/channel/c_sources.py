"""C sources that make each advisor of LLVM ask something."""

from __future__ import annotations

CALLS = """
int sink(int);
static int f(int x) { for (int i = 0; i < x; i++) x += sink(x * i ^ 3); return x * 3; }
static int g(int x) { return f(x) + f(x + 1) + sink(x); }
static int h(int x) { return x > 3 ? g(x) * f(x - 1) : g(x + 7) - f(x); }
int one(int a, int b) { return g(a) * g(b) + f(a) + h(b); }
int two(int a, int b) { return g(a + 1) * g(b) + f(a) + g(b * 2) + h(a) + h(b); }
"""
"""About a dozen calls that the inliner is asked about, in one module."""

PRESSURE = """
typedef struct { double v[32]; long n[32]; } S;
static inline unsigned rol(unsigned x, int n) { return x << n | x >> (32 - n); }
#define ROUND(i) \\
  a += rol(b ^ w[i], 5) + e; c ^= rol(d + w[i + 3], 7) * f; e += (a & c) ^ w[i + 5]; g ^= rol(h, 3) + w[i + 7]; \\
  b ^= rol(a + g, 11); d += rol(c ^ w[i + 9], 13); f ^= b * w[i + 11]; h += rol(e ^ d, 17) + w[i + 13];
void mix(unsigned *restrict s, const unsigned *restrict w, int n) {
  unsigned a = s[0], b = s[1], c = s[2], d = s[3], e = s[4], f = s[5], g = s[6], h = s[7];
  for (int k = 0; k < n; k++, w += 32) { ROUND(0) ROUND(1) ROUND(2) ROUND(3) ROUND(4) ROUND(5) ROUND(6) ROUND(7) }
  s[0] = a; s[1] = b; s[2] = c; s[3] = d; s[4] = e; s[5] = f; s[6] = g; s[7] = h;
}
long sums(long *restrict p, long n, long m) {
  long a = 0, b = 1, c = 2, d = 3, e = 4, f = 5, g = 6, h = 7, i = 8, j = 9, k = 10, l = 11, o = 12, q = 13;
  for (long t = 0; t < n; t++) {
    a += p[t] * b; b ^= p[t + m] + c; c += a * d; d ^= b + e; e += c * f; f ^= d + g; g += e * h; h ^= f + i;
    i += g * j; j ^= h + k; k += i * l; l ^= j + o; o += k * q; q ^= l + a; p[t] = a ^ q; p[t + m] = h + o;
  }
  return a + b + c + d + e + f + g + h + i + j + k + l + o + q;
}
int empty(void) { return 1; }
"""
"""More live values than x86-64 has registers, in two functions of three."""
