# writes train/valid/test/literals for a wide graph into this folder: python gen.py [N]
import sys, random

n = int(sys.argv[1]) if len(sys.argv) > 1 else 20000
r = random.Random(7)
e = [f"x{i:06d}" for i in range(n)]
w = lambda f, k: open(f, "w").writelines(
    f"{r.choice(e)}\tr{r.randrange(4)}\t{r.choice(e)}\n" for _ in range(k)
)
open("train.txt", "w").writelines(f"{e[i]}\tr{i % 4}\t{e[(i * 7 + 1) % n]}\n" for i in range(n))
w("valid.txt", 500)
w("test.txt", 2000)
import os

os.makedirs("literals", exist_ok=True)
open("literals/numerical_literals.txt", "w").writelines(
    f"{x}\ta{k}\t{r.random():.6f}\n" for x in e for k in range(5)
)
