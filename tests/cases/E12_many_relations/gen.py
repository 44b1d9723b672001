# many relations, one triple each: python gen.py [R]
import sys

R = int(sys.argv[1]) if len(sys.argv) > 1 else 5000
open("train.txt", "w").writelines(f"h{i % 50}\trel{i:05d}\tt{i % 60}\n" for i in range(R))
open("valid.txt", "w").write("h1\trel00002\tt1\n")
open("test.txt", "w").write("h2\trel00003\tt2\n")
