"""python -m mrq"""

from mrq.cli import main

main()
